package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// otherProcess runs one test of this program in another process, with more variables, until its standard input ends, which is when
// the benchmark or its round does. next waits for a line that begins with a word, and returns the rest.
func otherProcess(tb testing.TB, name, test string, env ...string) (tell io.Writer, next func(word string) string) {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Minute)
	other := exec.CommandContext(ctx, program, "-test.run=^"+test+"$", "-test.v=false", fmt.Sprintf("-test.short=%v", testing.Short()))
	other.Env = append(os.Environ(), env...)
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := other.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		defer cancel()
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := other.Wait(); err != nil {
			tb.Errorf("%s: the other process: %v", name, err)
		}
	})
	lines := bufio.NewScanner(out)
	return in, func(word string) string {
		tb.Helper()
		for lines.Scan() {
			if rest, found := strings.CutPrefix(lines.Text(), word); found {
				return strings.TrimSpace(rest)
			}
		}
		tb.Fatalf("%s: the other process ended before it said %q", name, word)
		return ""
	}
}
