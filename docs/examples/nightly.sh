#!/usr/bin/env bash
# Reconcile tonight's ledger. Run it again at any time: it resumes in the folder of the day.
set -u
folder="reports/$(date +%F)"
runs=12   # at most, while the service cannot be asked
pause=600 # seconds between two of them

mkdir -p reports || exit

command=(payclient reconcile ledger.csv --out "$folder" --rules rules.toml --canary T0000000001DEMO
    --confirm-after 10m)
# The last night whose report is whole is the previous run, and only what is new counts. In the first
# night, what is not compared counts, too.
limit=(--fail-on partial)
for night in $(ls -dr reports/*/); do
    if [[ $night < $folder/ ]] && payclient verify --allow-edits "$night" >/dev/null; then
        limit=(--previous "$night" --fail-on-new medium)
        break
    fi
done 2>/dev/null
command+=("${limit[@]}")

for ((run = 1; ; run++)); do
    "${command[@]}" >"$folder.txt" 2>"$folder.log"
    status=$?
    if [ "$status" -ne 75 ] || [ "$run" -ge "$runs" ]; then break; fi
    sleep "$pause"
done

send() { # send SUBJECT TO: the verdict, and what was said on the way to it
    cat "$folder.txt" "$folder.log" | mail -s "$1" "$2"
}

case $status in
    0) ;; # nothing to do
    1) send "Ledger: breaks, or not compared" finance@example.com ;;
    2) send "Ledger: cannot be read, or a wrong option" finance@example.com ;;
    3) send "Ledger: the service refuses us, or nothing was found" it@example.com ;;
    75) send "Ledger: incomplete after $runs runs" it@example.com ;;
    130) ;; # stopped by hand; what was answered is saved
    *) send "Ledger: failed with status $status" it@example.com ;;
esac
exit "$status"
