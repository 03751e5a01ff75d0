#!/bin/sh
# Starts $CHROMIUM without the features in $UNSEEN. Of several --disable-features only the last counts, and the driver
# gives one of its own: ours are added to it.
for given; do
    shift
    case $given in --disable-features=*) given=$given,$UNSEEN ;; esac
    set -- "$@" "$given"
done
exec "$CHROMIUM" "$@"
