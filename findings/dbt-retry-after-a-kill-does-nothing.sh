#!/usr/bin/env bash
# dbt-core 1.11.16 (dbt-duckdb 1.11.1): `dbt retry` after a build that was killed goes by the build before
# it. Where that one succeeded it does nothing, and its exit code is 0.
#
# Done: three models in a row, built. Their input changes; the second build is killed with SIGKILL while
# it makes the second model. Then `dbt retry`, and at last `dbt build`.
# Expected: retry makes the second and the third model, as the first was done; or it refuses.
# Instead: "Nothing to do", exit code 0. The first table is of the new input, the third of the old one.
# Why: retry reads target/run_results.json, which a build writes at its end; a killed one leaves that of
# the build before. Had that one failed, its failures would be retried, and no more.
# Documented: retry "references run_results.json"; not, that a killed build has none.
# Way out: after a kill `dbt build` again; or remove target/run_results.json before each build, so that
# retry has nothing to go by, and fails.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "dbt-core==1.11.16" "dbt-duckdb==1.11.1" "duckdb==1.5.5" "pyarrow==26.0.1"
dbt() { "$place/env/bin/dbt" --quiet "$@" --profiles-dir "$place"; }

mkdir models
cat > dbt_project.yml <<'YML'
name: rows
version: "1.0"
profile: rows
models: {rows: {+materialized: table}}
flags: {send_anonymous_usage_stats: false}
YML
echo 'rows: {target: here, outputs: {here: {type: duckdb, path: rows.duckdb}}}' > profiles.yml
echo "SELECT n FROM read_csv('input.csv')" > models/one.sql
cat > models/two.py <<'PY'
import os
import time


def model(dbt, session):
    rows = dbt.ref("one").to_arrow_table()
    if os.path.exists("slow"):
        open("begun", "w").close()
        time.sleep(600)
    return rows
PY
echo "SELECT n FROM {{ ref('two') }}" > models/three.sql

printf 'n\n1\n' > input.csv
dbt build
printf 'n\n2\n' > input.csv
touch slow
"$place/env/bin/dbt" --quiet build --profiles-dir "$place" &
until [ -e begun ]; do kill -0 $!; sleep 0.2; done
kill -9 $!
wait $! || echo "the build was killed: $?"
rm slow

look() {
    "$place/env/bin/python" -c "
import duckdb
base = duckdb.connect('rows.duckdb', read_only=True)
print([base.sql(f'FROM {name}').fetchall()[0][0] for name in ('one', 'two', 'three')])"
}

"$place/env/bin/dbt" retry --profiles-dir "$place" > retry.log && code=0 || code=$?
after=$(look)
dbt build
again=$(look)
printf 'retry: %s, %s; tables: %s; after another build: %s\n' \
    "$code" "$(grep -o 'Nothing to do' retry.log)" "$after" "$again"

[ "$code" = 0 ]
grep -q "Nothing to do" retry.log
[ "$after" = "[2, 1, 1]" ]
[ "$again" = "[2, 2, 2]" ]
