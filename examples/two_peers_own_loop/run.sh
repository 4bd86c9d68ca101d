#!/bin/sh
# Two sites on this machine, each with a training script of its own.
#   sh examples/two_peers_own_loop/run.sh [FOLDER] [PORT]
# Uses PORT to PORT + 2. In earnest every site has a machine of its own: see docs/deploy.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${1:-two-peers}
port=${2:-7400}
mkdir "$root" "$root/a" "$root/b"

at() { site=$1; shift; (cd "$root/$site" && "$@"); }

# Keys, an invitation, and what is trained, signed by the founder.
at a peerloom peer init a --found --address "127.0.0.1:$((port + 1))"
at b peerloom peer init b --address "127.0.0.1:$((port + 2))"
at a peerloom peer invite --listen "127.0.0.1:$port" 2> "$root/token" &
invitation=$!
until grep -q Waiting "$root/token"; do sleep 0.1; done
at b peerloom peer join "$(head -n 1 "$root/token")"
wait "$invitation"
cp "$here/experiment.toml" "$root/a"
at a peerloom peer roster graph experiment.toml
at a peerloom peer kit make kit.zip --experiment experiment.toml
cp "$root/a/kit.zip" "$root/b"
for site in a b; do at "$site" peerloom peer kit open kit.zip; done

# Both scripts; they find each other.
at a python "$here/train.py" peer peer/experiment.toml 1 &
first=$!
at b python "$here/train.py" peer peer/experiment.toml 2
wait "$first"
for site in a b; do
    at "$site" peerloom peer status
    at "$site" peerloom peer export model.safetensors
done
