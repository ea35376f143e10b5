package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// longName accepts every caller, under a name that is too long for a column.
type longName string

func (l longName) Identify(string) (Identity, error) {
	return Identity{Name: string(l) + "\n" + strings.Repeat("é", 200), Role: Operator}, nil
}

// TestBy: a task has the token and the address that enqueued it, for any name.
func TestBy(t *testing.T) {
	keys := newTokenSet()
	for _, c := range []struct {
		o    Options
		with func(*http.Request)
		want string
	}{
		{Options{}, func(*http.Request) {}, "api:127.0.0.1"},
		{Options{Access: keys}, with(keys.secrets[Operator]), "my-operator@127.0.0.1"},
		{Options{Access: longName("ann")}, with(keys.secrets[Operator]), "ann" + strings.Repeat("é", 126)},
		{Options{Access: longName("an")}, with(keys.secrets[Operator]), "an" + strings.Repeat("é", 126)},
	} {
		for _, body := range []string{`{}`, `[{},{}]`} {
			w := ask(t, newBackend().api(c.o), "POST", "/api/v1/pools/mail/tasks", body, c.with)
			var list struct{ Items []jobs.Task }
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) == 0 {
				t.Fatalf("%d: %v %s", w.Code, err, w.Body)
			}
			for _, task := range list.Items {
				if task.By != c.want {
					t.Errorf("%s is by %q, want %q", body, task.By, c.want)
				}
			}
		}
	}
}

// TestShortened: no rune is cut in two.
func TestShortened(t *testing.T) {
	for n := range 8 {
		text := strings.Repeat("a", n) + strings.Repeat("日本", 40)
		said, err := strconv.Unquote(quote(text))
		if short := strings.TrimSuffix(said, "…"); err != nil || !utf8.ValidString(short) || !strings.HasPrefix(text, short) || len(short) < 78 || len(short) > 80 {
			t.Errorf("%q is shown as %q", text, said)
		}
		if field := join("", text); !utf8.ValidString(field) || !strings.HasPrefix(text, field) || len(field) < 78 || len(field) > 80 {
			t.Errorf("%q is shown as %q", text, field)
		}
	}
	if quote("é") != `"é"` || join("[0]", "é") != "[0].é" {
		t.Error(quote("é"), join("[0]", "é"))
	}
}
