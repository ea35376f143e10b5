package pools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

type geocoder struct{ url string }

func (g *geocoder) look(ctx context.Context, t jobs.Task, address string) error {
	request, err := http.NewRequestWithContext(ctx, "POST", g.url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusTooManyRequests { // other programs use the API, too
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return fmt.Errorf("the API is busy: %w", jobs.Snooze(time.Duration(max(seconds, 1))*time.Second)) // no failure
	}
	if answer.StatusCode >= 300 {
		return errors.New(answer.Status)
	}
	return nil
}

func geocoding(g *geocoder) jobs.Pool {
	return jobs.Pool{
		Rate:    jobs.Rate{Count: 20, Per: time.Second}, // starts, all replicas together
		Burst:   1,                                      // one each 50 ms, also after a pause
		Handler: jobs.Func(g.look),
	}
}

// No two requests start within what the rate allows, over two replicas; a refusal by the API is no failure.
func TestThrottle(t *testing.T) {
	var mu sync.Mutex
	refused := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !refused {
			refused = true
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	_, st := database(t)
	set := jobs.Set{Pools: map[string]jobs.Pool{"geocode": geocoding(&geocoder{server.URL})}}
	var tasks []jobs.NewTask
	for n := range 6 {
		tasks = append(tasks, jobs.NewTask{Pool: "geocode", Payload: fmt.Sprint("street ", n)})
	}
	ids := enqueue(t, st, tasks...)
	replica(t, st, set, scheduler.Options{})
	replica(t, st, set, scheduler.Options{})
	var starts []time.Time
	for _, id := range ids {
		task := ended(t, st, id)
		if task.State != jobs.StateSucceeded || task.Attempt != 1 {
			t.Errorf("%s at attempt %d: %s", task.State, task.Attempt, task.Error)
		}
		starts = append(starts, task.StartedAt)
	}
	slices.SortFunc(starts, time.Time.Compare)
	for i, at := range starts[1:] {
		if gap := at.Sub(starts[i]); gap < 45*time.Millisecond {
			t.Errorf("start %d came %v after the one before", i+1, gap)
		}
	}
}
