#!/bin/sh
# Makes the secrets of deploy/compose.yaml, once: random, for their owner alone. Keep copies elsewhere.
set -eu
folder=${1:?the folder to make them in}
umask 077
[ ! -e "$folder" ] || { echo "$folder is there already: secrets are made once." >&2; exit 1; }
mkdir -p "$folder"
random() { openssl rand -hex 32 | tr -d '\n'; }
password=$(random)
printf %s "$password" >"$folder/database_password"
printf %s "postgresql://fabric:$password@postgresql:5432/fabric" >"$folder/database_url"
printf %s redis://broker:6379/0 >"$folder/broker_url"
printf %s redis://channels:6379/0 >"$folder/channel_url"
random >"$folder/secret_key"
random >"$folder/audit_key"
random >"$folder/key_ring"
# Compose mounts files as they are, and the containers' user reads them.
[ "$(id -u)" -ne 0 ] || chown -R 10001:10001 "$folder"
echo "Made in $folder. Without root, give them to user 10001: sudo chown -R 10001:10001 $folder"
