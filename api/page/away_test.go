package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// TestOpenedWhileTheStoreIsDown: a page opened while the store is down says so, and shows the state once it is back. A
// page opened before keeps its data, with its time.
func TestOpenedWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	db := servers.NewMySQL(t)
	s := newSceneOn(t, "mysql", db.DSN("lockstep"), jobs.Set{Jobs: map[string]jobs.Job{"backup": {Schedule: "@yearly", Handler: does(fine)}}},
		api.Options{}, scheduler.Options{ID: "replica-1", SessionTTL: 3 * time.Second})
	s.run("backup")
	db.Stop()
	all, one := newTab(t, 1280), newTab(t, 1280)
	all.navigate(s.url)
	one.navigate(s.url + "jobs/backup")
	for _, b := range []*tab{all, one} {
		b.says("#banners", "The store does not answer replica-1")
		eval[bool](b, "window.same = true") // gone after a reload
	}
	all.says("#findings", "does not answer replica-1")
	all.says("#headline", "problem")
	one.says("#headline", "Retrying")
	if text := all.text("body"); strings.Contains(text, "Disconnected") || strings.Contains(text, "The data is from") {
		t.Errorf("there is nothing from before, and the replica answers:\n%s", text)
	}

	db.Start()
	all.says("#headline", "Healthy")
	all.says("#recent", "succeeded")
	one.says("#headline", "Its last run succeeded")
	for _, b := range []*tab{all, one} {
		b.until("the banner is gone", `document.querySelector("#banners").innerText === ""`)
	}

	db.Stop()
	all.says("#banners", "The data is from")
	all.says("#recent", "succeeded")
	one.says("#triggers", "succeeded")
	db.Start()
	all.says("#headline", "Healthy")
	for _, b := range []*tab{all, one} {
		b.until("the banner is gone", `document.querySelector("#banners").innerText === ""`)
		if !eval[bool](b, "window.same") {
			t.Error("the page was loaded anew")
		}
	}
}

// behind serves the scene through a proxy of the test.
func (s *scene) behind(proxy func(w http.ResponseWriter, r *http.Request)) string {
	server := httptest.NewServer(http.HandlerFunc(proxy))
	s.t.Cleanup(server.Close)
	s.t.Cleanup(server.CloseClientConnections) // streams, which Close would wait for
	return server.URL + "/"
}

// TestAnOverviewInTwoChunks: an event split over chunks is one event; two in one chunk are two.
func TestAnOverviewInTwoChunks(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"backup": {Handler: does(fine)}}}, api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.behind(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			w = halves{w}
		}
		s.handler.ServeHTTP(w, r)
	}))
	b.says("#headline", "Healthy")
	b.says("#replicas", "replica-1")
	s.run("backup")
	b.says("#recent", "succeeded")
}

// halves sends each event in two chunks, the second one later.
type halves struct{ http.ResponseWriter }

func (h halves) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h halves) Write(p []byte) (int, error) {
	half := len(p) / 2
	n, err := h.ResponseWriter.Write(p[:half])
	if err != nil {
		return n, err
	}
	if err := http.NewResponseController(h.ResponseWriter).Flush(); err != nil {
		return n, err
	}
	time.Sleep(150 * time.Millisecond) // so that the browser reads the first one alone
	m, err := h.ResponseWriter.Write(p[half:])
	return n + m, err
}

// TestLateSearchResponse: the result of the last search is shown, in any order of responses.
func TestLateSearchResponse(t *testing.T) {
	t.Parallel()
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for _, name := range []string{"alpha", "beta"} {
		set.Jobs[name] = jobs.Job{Handler: does(fine)}
	}
	s := newScene(t, set, api.Options{})
	asked, release := make(chan bool, 1), make(chan bool)
	b := newTab(t, 1280)
	b.navigate(s.behind(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("prefix") == "alp" {
			asked <- true
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		s.handler.ServeHTTP(w, r)
	}))
	b.says("#sum", "2 jobs")
	enter := func(text string) {
		eval[bool](b, fmt.Sprintf(`(() => { const i = document.querySelector("#search"); i.value = %s; i.dispatchEvent(new Event("input")); return true; })()`, quote(text)))
	}
	enter("alp")
	<-asked
	enter("bet")
	b.says("#found", "beta")
	close(release)
	b.until("the older answer is here", `performance.getEntriesByType("resource").some((e) => e.name.endsWith("prefix=alp") && e.responseEnd > 0)`)
	b.run(`new Promise((done) => setTimeout(done, 100))`) // for its promises
	if text := b.text("#found"); !strings.Contains(text, "beta") || strings.Contains(text, "alpha") {
		t.Errorf("shown for “bet”:\n%s", text)
	}
	enter("alpha")
	b.says("#found", "alpha")
}
