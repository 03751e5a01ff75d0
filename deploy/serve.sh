#!/bin/sh
# What a container does, by its first word: web, worker, migrate, probe PATH, or any command of fabricflow.
# A variable NAME_FILE names a file whose content becomes NAME: secrets come as files, not in the container's configuration.
set -eu

for name in FABRIC_SECRET_KEY FABRIC_AUDIT_KEY DATABASE_URL CELERY_BROKER_URL CHANNEL_URL FABRIC_MODEL_KEY \
    FABRIC_ANTHROPIC_KEY FABRIC_GOOGLE_KEY FABRIC_AZURE_KEY FABRIC_BEDROCK_KEY FABRIC_VERTEX_KEY \
    FABRIC_WEBHOOK_SECRET FABRIC_SMTP_PASSWORD; do
    eval "file=\${${name}_FILE:-}"
    [ -n "$file" ] || continue
    [ -r "$file" ] || { echo "${name}_FILE names $file, which cannot be read: mount it, or leave the variable out." >&2; exit 1; }
    export "$name=$(cat "$file")"
    unset "${name}_FILE"
done

case "${1:-web}" in
web)
    exec uvicorn console.asgi:application --host 0.0.0.0 --port 8420 --log-level warning --no-access-log \
        --no-proxy-headers --no-server-header --timeout-graceful-shutdown 10 --ws-max-size 65536 \
        --ws-per-message-deflate false
    ;;
worker)
    exec celery --quiet -A console worker --pool threads --concurrency 4 --without-gossip --without-mingle \
        --without-heartbeat
    ;;
migrate)
    exec fabricflow migrate --verbosity 0
    ;;
probe)
    exec python -c 'import sys, urllib.request; urllib.request.urlopen("http://127.0.0.1:8420" + sys.argv[1], timeout=3)' "$2"
    ;;
*)
    exec fabricflow "$@"
    ;;
esac
