package pools

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

func render(_ context.Context, t jobs.Task, out io.Writer) error {
	_, err := fmt.Fprintf(out, "https://files.internal/%s.pdf\n", t.ID) // the output of the attempt
	return err
}

func renderAndWait(ctx context.Context, c *client.Client, order int) (string, error) {
	added, err := c.Enqueue(ctx, jobs.NewTask{Pool: "render", Payload: order})
	if err != nil {
		return "", err
	}
	task, err := c.Await(ctx, added[0].ID) // until ctx ends; the task goes on then
	if err != nil {
		return "", err
	}
	if task.State != jobs.StateSucceeded {
		return "", fmt.Errorf("task %s is %s: %s %s", task.ID, task.State, task.Reason, task.Error)
	}
	output, err := c.Output(ctx, task.ID, task.Attempt)
	return string(output), err
}

// Who enqueued gets what the handler wrote.
func TestResult(t *testing.T) {
	_, st := database(t)
	set := jobs.Set{Pools: map[string]jobs.Pool{"render": {Handler: jobs.HandlerFunc(render)}}}
	if err := st.AddPools(t.Context(), set.Pools); err != nil {
		t.Fatal(err)
	}
	replica(t, st, set, scheduler.Options{})
	server := httptest.NewServer(api.New(api.Backend{Store: st}, api.Options{}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url, err := renderAndWait(t.Context(), c, 7)
	tasks, _, listed := st.Tasks(t.Context(), allOf("render"))
	if err != nil || listed != nil || len(tasks) != 1 || url != "https://files.internal/"+tasks[0].ID+".pdf\n" {
		t.Errorf("%q, %v, %v", url, err, listed)
	}
}
