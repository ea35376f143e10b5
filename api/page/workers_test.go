package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

var letters = jobs.Set{Pools: map[string]jobs.Pool{"letters": {Handler: jobs.Worker{}, Kinds: map[string]jobs.Handler{"pdf": jobs.Worker{}}, Retries: jobs.Retries{Backoff: time.Millisecond}}}}

// post sends a call of a worker, and returns its answer.
func (s *scene) post(path string, body map[string]any) (answer map[string]any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.Post(s.url+"api/v1/"+path, "application/json", bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s, %v %v", path, res.Status, answer, err)
	}
	return answer
}

// work has a worker of that name claim a task, and returns its session and the task's id and token.
func (s *scene) work(name string) (session, id string, token float64) {
	s.t.Helper()
	claim := s.post("pools/letters/claim", map[string]any{"name": name, "kinds": []string{"", "pdf"}, "wait": "20s"})
	items := claim["items"].([]any)
	if len(items) != 1 {
		s.t.Fatalf("claimed %v", claim)
	}
	task := items[0].(map[string]any)
	return claim["session"].(string), task["id"].(string), task["token"].(float64)
}

func (s *scene) enqueueLetter() string {
	s.t.Helper()
	made, err := s.store.Enqueue(s.t.Context(), jobs.NewTask{Pool: "letters", Payload: "dear all"})
	if err != nil {
		s.t.Fatal(err)
	}
	return made[0].Task.ID
}

// TestWorkers: workers are shown beside the replicas, with their pool and kinds, when they were heard of, and the tasks that they have.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, letters, api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#workers", "No worker takes tasks over HTTP.")
	id := s.enqueueLetter()
	session, got, token := s.work("mailer")
	if got != id {
		t.Fatalf("claimed %s of %s", got, id)
	}
	b.says("#workers td.head", "mailer-")
	b.says("#workers td[data-label=State]", "live")
	b.says("#workers td[data-label=Pool]", "letters / (no kind), pdf")
	b.says(`#workers td[data-label="Last heard of"]`, "within 10s")
	b.says("#workers td[data-label=Running]", "1")
	b.says("#running", "mailer-")
	if text := b.text("#replicas"); strings.Contains(text, "mailer") {
		t.Errorf("a worker is no replica:\n%s", text)
	}
	b.click("#workers button[data-task]")
	b.says("#workers .more", "dear all")
	s.post("tasks/"+id+"/heartbeat", map[string]any{"session": session, "token": token, "progress": 0.5, "progress_text": "half"})
	b.says("#running", "50%, half")
	s.post("tasks/"+id+"/complete", map[string]any{"session": session, "token": token, "result": map[string]int{"pages": 7}})
	b.says("#workers td[data-label=Running]", "0")
	b.until("it has no task", `!document.querySelector("#workers button")`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url+"api/v1/workers/"+session, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	b.says("#workers", "No worker takes tasks over HTTP.")
}

// TestManyWorkers: of many workers a hundred are shown, and how many there are. Those that are late or dead are among them, and late ones are
// a warning, as late replicas are.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, letters, api.Options{})
	for i := range 120 {
		if _, err := s.store.Sides().Replica.Join(t.Context(), ledger.Member{Replica: fmt.Sprintf("w-%03d", i), Pool: "letters", Kinds: []string{""}, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#h-workers", "100 of 120")
	if n := eval[int](b, `document.querySelectorAll("#workers tbody tr").length`); n != 100 {
		t.Errorf("%d rows", n)
	}
	b.says("#headline", "Healthy")
	if _, err := s.store.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "z-late", Pool: "letters", Kinds: []string{""}, TTL: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	b.says("#workers", "z-late")
	b.says("#h-workers", "100 of 121")
	b.says("#findings", "z-late was last heard of ")
	b.says("#headline", "One warning")
}

// TestOverviewWithoutWorkers: the overview of a replica before this version has no list of them, and one whose store has failed has those from
// before.
func TestOverviewWithoutWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, letters, api.Options{})
	send := make(chan map[string]any, 1)
	b := newTab(t, 1280)
	b.navigate(s.behind(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			s.handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case view := <-send:
				text, err := json.Marshal(view)
				if err != nil {
					t.Error(err)
				}
				fmt.Fprintf(w, "event: overview\ndata: %s\n\n", text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	none := []string{}
	view := map[string]any{
		"replica": "replica-1", "ready": true, "conditions": none, "at": time.Now(), "jobs": 0, "failing": 0, "broken": none, "trouble": none, "wrong": none, "next": none,
		"running": none, "recent": none, "replicas": []wire.Replica{{ID: "replica-1", State: "live"}}, "replicas_total": 1, "pools": none, "pools_total": 0,
	}
	send <- view
	b.says("#headline", "Healthy")
	b.says("#workers", "No worker takes tasks over HTTP.")
	view["workers"], view["workers_total"] = []wire.Worker{{ID: "mailer-1", State: "dead", Pool: "letters", Kinds: []string{"pdf"}, TTL: "10s", Running: 3, SeenAt: time.Now().Add(-20 * time.Second)}}, 1
	view["error"] = "it is away"
	send <- view
	b.says("#workers", "dead")
	b.says("#workers", "letters / pdf")
	b.says(`#workers td[data-label="Last heard of"]`, "s ago")
	b.says("#headline", "problem")
}

// TestQuarantine: the details of a task that is quarantined say which replicas and workers died with it, and when.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	s := newScene(t, letters, api.Options{})
	made, err := s.store.Enqueue(t.Context(), jobs.NewTask{Pool: "letters", MaxAttempts: 1}) // losses do not count for it
	if err != nil {
		t.Fatal(err)
	}
	id := made[0].ID
	names := []string{"one", "two", "three"}
	for _, name := range names {
		session, got, _ := s.work(name)
		if got != id {
			t.Fatalf("claimed %s of %s", got, id)
		}
		r := s.store.Sides().Replica
		await.Until(t, "it is declared dead", func() bool {
			peers, err := r.Peers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range peers {
				if p.Session == session && !p.Dead {
					_, err := r.Expire(t.Context(), session, p.Beat)
					return err == nil
				}
			}
			return false
		})
		await.Until(t, "its task is reaped", func() bool {
			task, _, err := s.store.Task(t.Context(), id)
			return err == nil && task.State != jobs.StateRunning
		})
	}
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.click(`#trouble button[data-task="` + id + `"]`)
	b.says("#trouble .more", "Quarantined: replicas and workers over HTTP that died while they had it")
	b.says("#trouble .more", "3 of at most 3")
	for i, name := range names {
		line := fmt.Sprintf(`[...document.querySelectorAll("#trouble .more li")][%d]`, i)
		b.until("evidence of "+name, fmt.Sprintf(`%s?.innerText.startsWith("%s-") && %[1]s.innerText.includes(", attempt %[3]d: started ")`, line, name, i+1))
		if n := eval[int](b, line+`.querySelectorAll("time").length`); n != 2 {
			t.Errorf("%d times of %s", n, name)
		}
	}
	if n := eval[int](b, `document.querySelectorAll("#trouble .more li").length`); n != 3 {
		t.Errorf("%d pieces of evidence", n)
	}
	b.click(`#trouble .more a[href*="dead-letters#letters/"]`)
	b.says("#headline", "1 task failed for good in this way")
	b.says("#facts", "quarantined")
	b.says("#tasks td[data-label=Attempt]", "3 of 3")

	other := s.enqueueLetter()
	session, _, token := s.work("four")
	s.post("tasks/"+other+"/fail", map[string]any{"session": session, "token": token, "error": "no paper", "retry": false})
	b.navigate(s.url)
	b.click(`#trouble button[data-task="` + other + `"]`)
	b.says("#trouble .more", "no paper")
	if text := b.text("#trouble .more"); strings.Contains(text, "Quarantined") {
		t.Errorf("of a task that failed:\n%s", text)
	}
}
