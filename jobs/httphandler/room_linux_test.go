package httphandler

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// fillUp takes all descriptors of this process until the test ends, or what it returns was called.
func fillUp(t *testing.T) (free func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	for err := error(nil); err == nil; {
		var f *os.File
		if f, err = os.Open(os.DevNull); err == nil {
			taken = append(taken, f)
		}
	}
	free = func() {
		for _, f := range taken {
			f.Close()
		}
		taken = nil
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &was, nil); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(free)
	return free
}

// What was sent on a connection that broke, and for which no other could be made, has been started.
func TestNoDescriptorsForASecondTry(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max}, nil); err != nil {
			t.Error(err)
		}
	}
	defer limit(was.Cur)
	var got atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if got.Add(1) == 2 {
			limit(1)
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	h, err := New(Request{URL: server.URL, Method: http.MethodGet})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context(), jobs.Task{}, io.Discard); err != nil {
		t.Fatal(err)
	}
	err = h.Run(t.Context(), jobs.Task{}, io.Discard)
	limit(was.Cur)
	if err == nil || errors.Is(err, abort.ErrNotStarted) || !strings.Contains(err.Error(), "no room") || got.Load() != 2 {
		t.Errorf("%v after %d requests", err, got.Load())
	}
}

// Where no connection can be made for want of descriptors, nothing was sent; connections that lie idle
// make room first.
func TestNoDescriptors(t *testing.T) {
	var got atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) })
	one, other := httptest.NewServer(count), httptest.NewServer(count)
	defer one.Close()
	defer other.Close()
	resolve(t)(netip.MustParseAddr("127.0.0.1"))
	run := func(url string) error {
		h, err := New(Request{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return h.Run(t.Context(), jobs.Task{}, io.Discard)
	}
	transport.CloseIdleConnections()
	free := fillUp(t)
	for _, url := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "name.test", 1)} {
		if err := run(url); !errors.Is(err, abort.ErrNoRoom) || got.Load() != 0 {
			t.Errorf("%s: %v, %d came", url, err, got.Load())
		}
	}
	free()
	if err := run(one.URL); err != nil {
		t.Fatal(err)
	}
	// Now a connection to one is idle. Its server needs a descriptor of this process, too, for another.
	free = fillUp(t)
	err := run(other.URL)
	free()
	if errors.Is(err, abort.ErrNoRoom) {
		t.Errorf("idle connections were kept: %v", err)
	}
	if err := run(other.URL); err != nil {
		t.Errorf("with descriptors: %v", err)
	}
}
