#!/usr/bin/env bash
# dbt-core 1.11.16 (dbt-duckdb 1.11.1): in a model in Python dbt.config.get("n") is None, and no error, where
# it is part of an expression within the arguments of a call.
#
# Done: a model with the settings a, b, c and d, which reads each of them: on a line of its own, as the
# argument of a call, in "or" within an argument, in an f-string of a tuple that is an argument.
# Expected: the four values; or an error, as dbt has one for dbt.config.get(name) with a variable.
# Instead: a and b have theirs; c has the default behind its "or", d is "None 1".
# Why: dbt looks for these calls in the text of the model and hands over the settings that it found. Of
# the arguments of a call it looks into calls, lists, tuples, dictionaries and f-strings, one level deep.
# Documented: that only literals may be given to dbt.config.get(); not, where it may stand.
# Way out: read each setting on a line of its own.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "dbt-core==1.11.16" "dbt-duckdb==1.11.1" "duckdb==1.5.5" "pyarrow==26.0.1"

mkdir models
cat > dbt_project.yml <<'YML'
name: rows
version: "1.0"
profile: rows
models: {rows: {+materialized: table}}
flags: {send_anonymous_usage_stats: false}
YML
echo 'rows: {target: here, outputs: {here: {type: duckdb, path: rows.duckdb}}}' > profiles.yml
cat > models/models.yml <<'YML'
models:
  - name: one
    config: {a: A, b: B, c: C, d: D}
YML
cat > models/one.py <<'PY'
import pyarrow as pa


def join(parts):
    return " ".join(map(str, parts))


def model(dbt, session):
    a = dbt.config.get("a")
    b = str(dbt.config.get("b"))
    c = str(dbt.config.get("c") or "default")
    d = join(parts=(f"{dbt.config.get('d')}", 1))
    return pa.table({"a": [a], "b": [b], "c": [c], "d": [d]})
PY

"$place/env/bin/dbt" --quiet build --profiles-dir "$place"
said=$("$place/env/bin/python" -c "
import duckdb
print(duckdb.connect('rows.duckdb', read_only=True).sql('FROM one').fetchall())")
printf '%s\n' "$said"

[ "$said" = "[('A', 'B', 'default', 'None 1')]" ]
