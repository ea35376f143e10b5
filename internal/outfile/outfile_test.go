//go:build unix

package outfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func open(t *testing.T, files *Files, path string) *Writer {
	t.Helper()
	w, err := files.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// A file is rotated before it is too large, the rotated ones get the next numbers, and those beyond the number that is kept go.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "here", "job.log")
	var files Files
	w := open(t, &files, path)
	for i := range 9 {
		if err := w.Append(fmt.Appendf(nil, "line %d\n", i), Rotation{14, 3}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"": "line 8\n", ".1": "line 6\nline 7\n", ".2": "line 4\nline 5\n", ".3": "line 2\nline 3\n", ".4": ""} {
		if got := read(t, path+name); got != want {
			t.Errorf("job.log%s has %q, want %q", name, got, want)
		}
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, path + ".1": 0o600, filepath.Dir(path): 0o700, filepath.Dir(filepath.Dir(path)): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// What is larger than a file, as what a command writes fast, goes into several, none of which is too large: whole lines, and parts of one that is larger than a file.
func TestNoFileIsTooLarge(t *testing.T) {
	for what, c := range map[string]struct {
		before, text string
		want         []string // the oldest first
	}{
		"lines":                       {"", "aaa\nbbb\nccc\nddd\neee\n", []string{"aaa\nbbb\n", "ccc\nddd\n", "eee\n"}},
		"behind others":               {"x\n", "aaa\nbbb\nccc\n", []string{"x\naaa\nbbb\n", "ccc\n"}},
		"where the rest is too small": {"xxx\n", "aaa\nbbb\nccc\n", []string{"xxx\n", "aaa\nbbb\n", "ccc\n"}},
		"a line that fits exactly":    {"", "123456789\nb\n", []string{"123456789\n", "b\n"}},
		"a line without end":          {"", "aaa\n0123456789", []string{"aaa\n", "0123456789"}},
		"a long line":                 {"", "0123456789abcdefghijABC\n", []string{"0123456789", "abcdefghij", "ABC\n"}},
		"a long line between lines":   {"", "a\n0123456789abc\nd\n", []string{"a\n", "0123456789", "abc\nd\n"}},
	} {
		path := filepath.Join(t.TempDir(), "job.log")
		var files Files
		w := open(t, &files, path)
		for _, text := range []string{c.before, c.text} {
			if err := w.Append([]byte(text), Rotation{10, 9}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for n := len(c.want) - 1; n > 0; n-- {
			got = append(got, read(t, fmt.Sprintf("%s.%d", path, n)))
		}
		if got = append(got, read(t, path)); !slices.Equal(got, c.want) || read(t, fmt.Sprintf("%s.%d", path, len(c.want))) != "" {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "job.log")
	var files Files
	w := open(t, &files, path)
	for range 20 { // as the pipe of a command is read
		if err := w.Append([]byte(strings.Repeat("a line of a fast command\n", 1310)), Rotation{4096, 200}); err != nil {
			t.Fatal(err)
		}
	}
	all, _ := filepath.Glob(path + "*")
	total := 0
	for _, name := range all {
		text := read(t, name)
		if total += len(text); len(text) > 4096 || !strings.HasSuffix(text, "command\n") {
			t.Errorf("%s has %d bytes, and ends with %q", name, len(text), text[max(0, len(text)-10):])
		}
	}
	if total != 20*1310*25 {
		t.Errorf("%d bytes in %d files", total, len(all))
	}
}

// Several writers have one file, which goes on where it was, and is closed with the last one.
func TestWritersShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.log")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var files Files
	var group sync.WaitGroup
	for i := range 20 {
		w := open(t, &files, path)
		group.Go(func() {
			for range 50 {
				if err := w.Append(fmt.Appendf(nil, "line of %02d\n", i), Rotation{1000, 100}); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			_ = w.Close()
		})
	}
	group.Wait()
	if len(files.open) > 0 {
		t.Error("the file is still open")
	}
	lines := 0
	all, _ := filepath.Glob(path + "*")
	for _, name := range all {
		text := read(t, name)
		if len(text) > 1000 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		lines += strings.Count(text, "\n")
	}
	if lines != 1001 {
		t.Errorf("%d lines in %d files", lines, len(all))
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.Base(path)+fmt.Sprintf(".%d", len(all)-1))); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the mode of what was there: %v, %v", info, err)
	}
}

// What another process did to the file is seen: a file that was rotated, moved or removed is made anew.
func TestAFileOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.log")
	var here, there Files
	a, b := open(t, &here, path), open(t, &there, path)
	write := func(w *Writer, text string) {
		t.Helper()
		if err := w.Append([]byte(text), Rotation{14, 3}); err != nil {
			t.Fatal(err)
		}
	}
	write(a, "line 0\n")
	write(b, "line 1\n")
	write(a, "line 2\n") // it has counted its own
	write(b, "line 3\n")
	write(a, "line 4\n") // too large: it rotates
	write(b, "line 5\n") // too large, and is rotated already
	if got := read(t, path) + "|" + read(t, path+".1") + "|" + read(t, path+".2"); got != "line 4\nline 5\n|line 0\nline 1\nline 2\nline 3\n|" {
		t.Errorf("%q", got)
	}
	write(b, "")
	a.looked = a.looked.Add(-lookAfter)
	write(a, "line x\n") // it counts what the other has written
	if got := read(t, path) + "|" + read(t, path+".1"); got != "line x\n|line 4\nline 5\n" {
		t.Errorf("%q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.looked = a.looked.Add(-lookAfter)
	write(a, "line 6\n")
	if got := read(t, path); got != "line 6\n" {
		t.Errorf("after it was removed: %q", got)
	}
}

// What is no regular file is refused, and nothing waits for it.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	link, fifo, file := filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var files Files
	for _, path := range []string{link, fifo, dir, filepath.Join(file, "below"), "/dev/null"} {
		if w, err := files.Open(path); err == nil {
			t.Errorf("%s is open", path)
			_ = w.Close()
		}
	}
}
