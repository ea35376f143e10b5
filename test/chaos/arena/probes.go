//go:build linux

package arena

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const betweenProbes = 250 * time.Millisecond

// Probe reads the health of each replica until ctx ends, as a load balancer does.
func (a *Arena) Probe(ctx context.Context) error {
	probes, err := history.OpenLog[history.Probe](a.Dir, history.ProbesFile)
	if err != nil {
		return err
	}
	defer probes.Close()
	var probing sync.WaitGroup
	for _, r := range a.Replicas {
		probing.Go(func() {
			tick := time.NewTicker(betweenProbes)
			defer tick.Stop()
			for {
				p := r.probe(ctx)
				if ctx.Err() != nil {
					return
				}
				a.note(probes.Add(p))
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	probing.Wait()
	return nil
}

func (r *Replica) probe(ctx context.Context) history.Probe {
	p, pid := history.Probe{At: time.Now(), Replica: r.ID}, r.PID()
	status, _ := r.look(ctx, "/healthz")
	p.Live = status == http.StatusOK
	if p.Live {
		var view struct {
			Conditions []struct {
				Name, Detail string
				Ready        bool
			}
		}
		var text []byte
		status, text = r.look(ctx, "/readyz")
		p.Ready = status == http.StatusOK
		_ = json.Unmarshal(text, &view) // an answer that is cut names nothing
		for _, c := range view.Conditions {
			if !c.Ready {
				p.Red = append(p.Red, c.Name+": "+c.Detail)
			}
		}
	}
	if p.Ready {
		r.sawReady(pid)
	}
	return p
}

// look is a GET of one second at most; status 0: no answer.
func (r *Replica) look(ctx context.Context, path string) (status int, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return r.get(ctx, path)
}

// get is a GET; status 0: no answer.
func (r *Replica) get(ctx context.Context, path string) (status int, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+path, nil)
	if err != nil {
		return 0, nil
	}
	answer, err := r.arena.http.Do(request)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil
	}
	return answer.StatusCode, text
}
