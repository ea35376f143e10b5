package clip

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestOutputKeepsHeadAndTail(t *testing.T) {
	const limit = 64
	rnd := rand.New(rand.NewPCG(1, 2))
	write := func(o *Output, p []byte) {
		if n, err := o.Write(p); n != len(p) || err != nil {
			t.Fatalf("of %d bytes it takes %d: %v", len(p), n, err)
		}
	}
	for size := range 400 {
		var all bytes.Buffer
		for i := 0; all.Len() < size; i++ {
			fmt.Fprintf(&all, "%d,", i)
		}
		o := NewOutput(limit)
		for rest := all.Bytes(); len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(90))
			write(o, rest[:n])
			rest = rest[n:]
		}
		got := string(o.Bytes())
		if all.Len() <= limit {
			if got != all.String() {
				t.Fatalf("size %d: %q, want %q", size, got, all.String())
			}
			continue
		}
		text := all.String()
		want := fmt.Sprintf("%s\n… %d bytes left out …\n%s", text[:limit/2], len(text)-limit, text[len(text)-limit/2:])
		if got != want {
			t.Fatalf("size %d:\n%q\nwant\n%q", size, got, want)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	o := NewOutput(1000)
	for range 1000 {
		o.Write([]byte(strings.Repeat("x", 10_000)))
	}
	if n := len(o.Bytes()); n > 1100 {
		t.Errorf("kept %d bytes", n)
	}
}

// The smallest limit keeps nothing, and counts the bytes that are left out.
func TestOutputOfTheLeastLimit(t *testing.T) {
	o := NewOutput(1)
	o.Write([]byte("abc"))
	o.Write(nil)
	o.Write([]byte("d"))
	if got := string(o.Bytes()); got != "\n… 4 bytes left out …\n" {
		t.Errorf("%q", got)
	}
}
