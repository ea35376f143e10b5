package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverSettings are those that its throughput and its delay depend on.
type riverSettings struct {
	workers        int
	cooldown, poll time.Duration // 0: its defaults, 100 ms and 1 s
}

func riverDefaults(workers int) riverSettings { return riverSettings{workers: workers} }

// riverTuned are the settings of its own benchmark.
var riverTuned = riverSettings{workers: 2_000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond}

// riverQueue is River on PostgreSQL: producers and workers have pools of their own, as in two processes.
type riverQueue struct {
	settings         riverSettings
	producing, using *pgxpool.Pool
	producer         *river.Client[pgx.Tx]
	log              *slog.Logger
}

func openRiver(ctx context.Context, url string, s riverSettings) (queue, error) {
	q := &riverQueue{settings: s, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, pool := range []**pgxpool.Pool{&q.producing, &q.using} {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		config.MaxConns = 16 // as many as a Store of Lockstep has
		if *pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
			return nil, err
		}
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(q.producing), &rivermigrate.Config{Logger: q.log})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("migrate River: %w", err)
	}
	q.producer, err = river.NewClient(riverpgxv5.New(q.producing), &river.Config{FetchCooldown: s.cooldown, Logger: q.log})
	return q, err
}

type nothing struct {
	Task int `json:"task"`
}

func (nothing) Kind() string { return "nothing" }

type nothingWorker struct {
	river.WorkerDefaults[nothing]
	began func(task int)
}

func (w *nothingWorker) Work(_ context.Context, job *river.Job[nothing]) error {
	w.began(job.Args.Task)
	return nil
}

func (q *riverQueue) enqueue(ctx context.Context, first, n int) error {
	if n == 1 {
		_, err := q.producer.Insert(ctx, nothing{first}, nil)
		return err
	}
	all := make([]river.InsertManyParams, n)
	for i := range all {
		all[i].Args = nothing{first + i}
	}
	_, err := q.producer.InsertManyFast(ctx, all)
	return err
}

func (q *riverQueue) start(ctx context.Context, began func(task int)) (stop func(), err error) {
	if _, err := q.producing.Exec(ctx, "ANALYZE river_job"); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &nothingWorker{began: began})
	client, err := river.NewClient(riverpgxv5.New(q.using), &river.Config{
		FetchCooldown: q.settings.cooldown, FetchPollInterval: q.settings.poll, Logger: q.log, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.settings.workers}},
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		_ = client.Stop(ending)
	}, nil
}

func (q *riverQueue) stored(ctx context.Context) error {
	for open := true; open; {
		err := q.producing.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river_job WHERE state IN ('available', 'running'))").Scan(&open)
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func (q *riverQueue) close() error {
	q.using.Close()
	q.producing.Close()
	return nil
}
