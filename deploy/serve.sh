#!/bin/sh
# A container runs its first word: web, worker, migrate, probe PATH, or any command of fabricflow.
# Secrets come as files: the program reads the file that NAME_FILE names in place of NAME.
set -eu

case "${1:-web}" in
web)
    exec python -m console.web_server --host 0.0.0.0 --port 8420
    ;;
worker)
    export BEAT_FILE="${BEAT_FILE:-/tmp/beat}"
    exec python -m console.worker
    ;;
alive)
    # 0 if the worker in this container gave a sign of life within a minute.
    [ -n "$(find "${BEAT_FILE:-/tmp/beat}" -newermt '-60 seconds' 2>/dev/null)" ]
    ;;
migrate)
    exec fabricflow django migrate --verbosity 0
    ;;
probe)
    exec python -c 'import sys, urllib.request; urllib.request.urlopen("http://127.0.0.1:8420" + sys.argv[1], timeout=3)' "$2"
    ;;
*)
    exec fabricflow "$@"
    ;;
esac
