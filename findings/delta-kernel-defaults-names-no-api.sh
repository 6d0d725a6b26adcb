#!/usr/bin/env bash
# The artifact of Delta Kernel's default engine no longer names the interface that it implements.
#
# Versions: io.delta:delta-kernel-defaults 4.0.1 and 4.4.0, from Maven Central; Maven 3.
# Done: a project that depends on delta-kernel-defaults alone, as 3.2 to 4.0 were used, has its
#   dependencies copied, and a line of Java imports io.delta.kernel.Table against them.
# Expected: the same of both versions. Each class of the default engine is an implementation of, or
#   takes, a type of delta-kernel-api, so that comes with it.
# Happened: 4.0.1 brings delta-kernel-api. 4.4.0 does not: its list of dependencies has lost it, and has
#   instead libraries of tests (golden-tables, assertj). The import does not compile. Both artifacts
#   have to be named. 4.2.0 and 4.3.0 are as 4.4.0.
# Documented: the guide of Delta Kernel lists both artifacts to be named, and does not say that one
#   no longer brings the other.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

cat > UseKernel.java <<'JAVA'
import io.delta.kernel.Table;

class UseKernel {
    static final Class<?> NEEDED = Table.class;
}
JAVA

# Prints what came of a version: the jars of Delta, and whether the line compiles.
try_version() {
    mkdir "$1"
    cat > "$1/pom.xml" <<POM
<project><modelVersion>4.0.0</modelVersion>
<groupId>none</groupId><artifactId>none</artifactId><version>1</version><dependencies>
<dependency><groupId>io.delta</groupId><artifactId>delta-kernel-defaults</artifactId>
<version>$1</version></dependency></dependencies></project>
POM
    mvn -q -B -f "$1/pom.xml" -Dmaven.repo.local="$place/repository" \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$place/$1/jars" > "$1/maven.txt"
    (cd "$1/jars" && ls delta-*.jar | tr '\n' ' ')
    if javac -d "$1" -cp "$1/jars/*" UseKernel.java > "$1/javac.txt" 2>&1; then
        echo "compiles"
    else
        echo "does not compile"
    fi
}

old=$(try_version 4.0.1)
new=$(try_version 4.4.0)
echo "4.0.1: $old"
echo "4.4.0: $new"
[[ $old == *delta-kernel-api-4.0.1.jar*" compiles" ]]
[[ $new != *delta-kernel-api* && $new == *" does not compile" ]]
