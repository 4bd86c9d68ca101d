#!/bin/sh
# Three sites on this machine, from keys to trained models: the commands of docs/deploy.md.
#   sh examples/three_sites/run.sh [FOLDER] [PORT]
# Uses PORT to PORT + 3. In earnest every site has a machine of its own and works in its own folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${1:-three-sites}
port=${2:-7400}
mkdir "$root" "$root/north" "$root/south" "$root/west"

at() { site=$1; shift; (cd "$root/$site" && "$@"); }

# 1. A key for every site. North founds the federation; it has no other power.
at north peerloom peer init north --found --address "127.0.0.1:$((port + 1))"
at south peerloom peer init south --address "127.0.0.1:$((port + 2))"
at west peerloom peer init west --address "127.0.0.1:$((port + 3))"

# 2. Joining: the founder prints a token and waits; the newcomer answers with it.
for site in south west; do
    at north peerloom peer invite --listen "127.0.0.1:$port" 2> "$root/token" &
    invitation=$!
    until grep -q Waiting "$root/token"; do sleep 0.1; done
    at "$site" peerloom peer join "$(head -n 1 "$root/token")"
    wait "$invitation"
done

# 3. What is trained: signed by the founder, packed for the others.
cp "$here/experiment.toml" "$root/north"
at north peerloom peer roster graph experiment.toml
at north peerloom peer kit make kit.zip --experiment experiment.toml
for site in south west; do cp "$root/north/kit.zip" "$root/$site"; done

# 4 and 5. Every site has samples of its own, opens the kit, and trains.
number=0
started=""
for site in north south west; do
    number=$((number + 1))
    at "$site" python "$here/make_patients.py" "$number" patients.csv
    at "$site" peerloom peer kit open kit.zip
    at "$site" peerloom peer start peer/experiment.toml --data patients.csv \
        --listen "127.0.0.1:$((port + number))" --wait 120 2> "$root/$site/log" &
    started="$started $!"
done
for peer in $started; do wait "$peer"; done

# 6. How it went, and the models.
for site in north south west; do
    at "$site" peerloom peer status
    at "$site" peerloom peer export model.safetensors
done
