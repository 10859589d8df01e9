#!/usr/bin/env bash
# Reconcile the ledger that arrived, after each earlier one that was not. Run it again at any time: it resumes.
set -u
shopt -s nullglob
runs=12   # at most, while the service cannot be asked
pause=600 # seconds between two of them

mkdir -p reports || exit
exec 9>>reports/.lock
if command -v flock >/dev/null && ! flock -n 9; then echo "another run is under way" >&2; exit 75; fi
touch reports/nights.txt # the folders of the nights that are over, in this order

reconcile() { # reconcile FOLDER: the ledger beside it
    local folder=$1 limit=(--fail-on partial) night run also
    local command=(payclient reconcile "$folder.csv" --out "$folder" --rules rules.toml
        --canary T0000000001DEMO --confirm-after 10m)
    # The night that was over before this one is the previous run, and only what is new counts. In the
    # first night, what is not compared counts, too.
    night=$(sed "\|^$folder\$|,\$d" reports/nights.txt | tail -n 1)
    if [ "$night" ]; then limit=(--previous "$night" --fail-on-new medium); fi

    for ((run = 1; run <= runs; run++)); do
        if [ "$run" -gt 1 ]; then sleep "$pause"; fi
        "${command[@]}" "${limit[@]}" >"$folder.txt" 2>>"$folder.log"
        status=$?
        also=
        # With breaks the status is 1, even if some rows could not be asked.
        if [ "$status" -ne 75 ] && ! grep -q ^INCOMPLETE "$folder.txt"; then break; fi
        also=it@example.com
    done

    case $status in
        0) ;; # nothing to do
        1) send "breaks, or not compared" finance@example.com $also ;;
        2) send "cannot be compared, or a wrong option" finance@example.com it@example.com ;;
        3) send "not set up, refused, or nothing was found" it@example.com ;;
        75) send "incomplete after $runs runs" it@example.com ;;
        *) send "failed with status $status" it@example.com ;;
    esac
    # Without a report, or if the mail is lost, the night isn't over.
    if [ ! -e "$folder/manifest.json" ] || [ "${unsent-}" ] || is_over "$folder"; then return; fi
    echo "$folder" >>reports/nights.txt
}

is_over() { # is_over FOLDER
    grep -qxF "$1" reports/nights.txt
}

send() { # send SUBJECT TO...: the verdict, and what was said on the way to it
    cat "$folder.txt" "$folder.log" | mail -s "$folder: $1" "${@:2}" || unsent=70
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
    if [ "$folder" = "$today" ] || is_over "$folder"; then continue; fi
    reconcile "$folder"
    # Once it began, it is the previous run of the next one, which waits for it.
    if [ -e "$folder/journal.sqlite" ] && ! is_over "$folder"; then exit "${unsent:-$status}"; fi
done
reconcile "$today"
exit "${unsent:-$status}"
