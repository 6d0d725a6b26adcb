// River in a trial of flow_peers.py: `flow_river JSON` puts jobs, or works them off.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type trial struct {
	Verb, Queue, Socket string
	Keys                []string
	Items, Limit        int
	Handling, Seconds   float64
}

type item struct{ Name string }

func (item) Kind() string { return "item" }

type handler struct {
	river.WorkerDefaults[item]
	handling float64
}

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

func (h *handler) Work(_ context.Context, job *river.Job[item]) error {
	start := now()
	time.Sleep(seconds(h.handling))
	fmt.Printf("%s %.6f %.6f\n", job.Args.Name, start, now())
	return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	var t trial
	must(0, json.Unmarshal([]byte(os.Args[1]), &t))
	ctx := context.Background()
	driver := riverpgxv5.New(must(pgxpool.New(ctx, "user=postgres database=postgres host="+t.Socket)))
	workers, queues := river.NewWorkers(), map[string]river.QueueConfig{}
	river.AddWorker(workers, &handler{handling: t.Handling})
	for _, key := range t.Keys {
		queues[t.Queue+key] = river.QueueConfig{MaxWorkers: t.Limit}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	config := &river.Config{Workers: workers, Queues: queues, Logger: log}
	if t.Verb == "put" {
		must(must(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
		rows := make([]river.InsertManyParams, t.Items)
		for n := range rows {
			key := t.Keys[n%len(t.Keys)]
			rows[n] = river.InsertManyParams{Args: item{key}, InsertOpts: &river.InsertOpts{Queue: t.Queue + key}}
		}
		must(must(river.NewClient(driver, config)).InsertMany(ctx, rows))
		return
	}
	must(0, must(river.NewClient(driver, config)).Start(ctx))
	time.Sleep(seconds(t.Seconds))
}
