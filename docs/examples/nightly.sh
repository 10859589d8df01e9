#!/usr/bin/env bash
# Reconcile the ledger that arrived, after each earlier one without a report. Run it again at any time: it resumes.
set -u
shopt -s nullglob
runs=12   # at most, while the service cannot be asked
pause=600 # seconds between two of them

mkdir -p reports || exit
exec 9>>reports/.lock
if command -v flock >/dev/null && ! flock -n 9; then echo "another run is under way" >&2; exit 75; fi

reconcile() { # reconcile FOLDER: the ledger beside it
    local folder=$1 limit=(--fail-on partial) night run
    local command=(payclient reconcile "$folder.csv" --out "$folder" --rules rules.toml
        --canary T0000000001DEMO --confirm-after 10m)
    # The last night whose report is whole is the previous run, and only what is new counts. In the first
    # night, what is not compared counts, too. Decisions are in the night itself, not in where it was rejudged.
    for night in $(ls -r reports); do
        night="reports/$night"
        if [[ -d $night && $night < $folder && $night != *-rejudged* ]] && payclient verify --allow-edits "$night"; then
            limit=(--previous "$night" --fail-on-new medium)
            break
        fi
    done >>"$folder.log" 2>&1

    for ((run = 1; ; run++)); do
        "${command[@]}" "${limit[@]}" >"$folder.txt" 2>>"$folder.log"
        status=$?
        # With breaks the status is 1, even if some rows could not be asked.
        if ! { [ "$status" -eq 75 ] || grep -q ^INCOMPLETE "$folder.txt"; } || [ "$run" -ge "$runs" ]; then break; fi
        sleep "$pause"
    done

    case $status in
        0) ;; # nothing to do
        1) send "$folder" "Ledger: breaks, or not compared" finance@example.com ;;
        2) send "$folder" "Ledger: cannot be read, or a wrong option" finance@example.com
            touch "$folder.refused" ;;
        3) send "$folder" "Ledger: not set up, refused, or nothing was found" it@example.com ;;
        75) send "$folder" "Ledger: incomplete after $runs runs" it@example.com ;;
        *) send "$folder" "Ledger: failed with status $status" it@example.com ;;
    esac
}

send() { # send FOLDER SUBJECT TO: the verdict, and what was said on the way to it
    cat "$1.txt" "$1.log" | mail -s "$2" "$3"
}

today="reports/$(date +%F)"
# The ledger is moved, so that it isn't taken for the next night's. A second one of the day has its own folder.
if [ -e ledger.csv ]; then
    if [ -e "$today.csv" ]; then today+="T$(date +%H%M%S)"; fi
    mv ledger.csv "$today.csv" || exit
else
    for ledger in "$today"*.csv; do today="${ledger%.csv}"; done
fi

for ledger in reports/*.csv; do
    folder="${ledger%.csv}"
    if [[ ! -e $folder/manifest.json && ! -e $folder.refused && $folder < $today ]]; then reconcile "$folder"; fi
done
reconcile "$today"
exit "$status"
