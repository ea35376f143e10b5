//go:build linux

package arena

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Answers of an Ask.
const (
	ok      = "ok"
	refused = "refused" // it surely did not happen
	unknown = "unknown"
)

// askTimeout is when a client gives up; a replica's own calls to the store may take longer.
const askTimeout = 2 * time.Second

// caller sends the calls of clients, and logs the answers.
type caller struct {
	http  *http.Client
	asks  *history.Log[history.Ask]
	asked *sync.Map // of the arena
	note  func(error)
}

// ask posts body to a path of a replica and decodes a good answer into out. a has the target of the call
// already.
func (c *caller) ask(ctx context.Context, r *Replica, a history.Ask, path string, header http.Header, body, out any) history.Ask {
	return c.askBy(ctx, http.MethodPost, r, a, path, header, body, out)
}

func (c *caller) askBy(ctx context.Context, method string, r *Replica, a history.Ask, path string, header http.Header, body, out any) history.Ask {
	a.Called, a.Replica = time.Now(), r.ID
	status, err := c.send(ctx, method, r.URL()+path, header, body, out)
	a.Returned, a.Status = time.Now(), status
	switch {
	case status/100 == 2 && err == nil:
		a.Answer = ok
	case status/100 == 4: // a refused connection says nothing: net/http repeats what has an Idempotency-Key by itself
		a.Answer = refused
	default:
		a.Answer = unknown
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// send returns the status, 0 if there was none. The error of a bad status is its code.
func (c *caller) send(ctx context.Context, method, url string, header http.Header, body, out any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return 0, err
	}
	maps.Copy(request.Header, header)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return c.do(request, out)
}

func (c *caller) get(ctx context.Context, url string, out any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	return c.do(request, out)
}

func (c *caller) do(request *http.Request, out any) (int, error) {
	answer, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err // the answer was cut: it is unknown
	}
	if answer.StatusCode/100 != 2 {
		var problem struct{ Error struct{ Code string } }
		_ = json.Unmarshal(text, &problem) // an answer without a code has an empty one
		return answer.StatusCode, errors.New(cmp.Or(problem.Error.Code, "no code"))
	}
	if out == nil {
		return answer.StatusCode, nil
	}
	return answer.StatusCode, json.Unmarshal(text, out)
}

// write adds asks to the log.
func (c *caller) write(asks ...history.Ask) {
	for _, a := range asks {
		c.note(c.asks.Add(a))
		if _, before := c.asked.LoadOrStore(a.What, a.Answer == ok); before && a.Answer == ok {
			c.asked.Store(a.What, true)
		}
	}
}
