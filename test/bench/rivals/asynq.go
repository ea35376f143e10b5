package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
)

// asynqQueue is asynq on Redis, with its default settings but for the number of workers.
type asynqQueue struct {
	at        asynq.RedisClientOpt
	workers   int
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openAsynq(addr string, workers int) (queue, error) {
	at := asynq.RedisClientOpt{Addr: addr}
	return &asynqQueue{at, workers, asynq.NewClient(at), asynq.NewInspector(at)}, nil
}

func (q *asynqQueue) enqueue(ctx context.Context, first, n int) error {
	for i := first; i < first+n; i++ {
		if _, err := q.client.EnqueueContext(ctx, asynq.NewTask("nothing", []byte(strconv.Itoa(i)))); err != nil {
			return err
		}
	}
	return nil
}

func (q *asynqQueue) start(_ context.Context, began func(task int)) (stop func(), err error) {
	server := asynq.NewServer(q.at, asynq.Config{Concurrency: q.workers, LogLevel: asynq.ErrorLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc("nothing", func(_ context.Context, t *asynq.Task) error {
		task, err := strconv.Atoi(string(t.Payload()))
		if err == nil {
			began(task)
		}
		return err
	})
	return server.Shutdown, server.Start(mux)
}

func (q *asynqQueue) stored(ctx context.Context) error {
	for {
		info, err := q.inspector.GetQueueInfo("default")
		if err != nil {
			return err
		}
		if info.Pending+info.Active+info.Retry == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (q *asynqQueue) close() error { return errors.Join(q.client.Close(), q.inspector.Close()) }
