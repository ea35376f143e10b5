package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// table is printed as markdown.
type table struct {
	title string
	head  []string
	rows  [][]string
	state string // of the machine before
}

func newTable(tb testing.TB, title string, head ...string) *table {
	tb.Helper()
	return &table{title: title, head: head, state: load() + ", " + fsync(tb)}
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print() {
	var s strings.Builder
	fmt.Fprintf(&s, "\n### %s\n\n%s; %s\n\n", t.title, machine(), t.state)
	line := func(cells []string) { fmt.Fprintf(&s, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	s.WriteString("|---|" + strings.Repeat("---:|", len(t.head)-1) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	fmt.Println(s.String())
}

func machine() string {
	processor := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			processor = strings.Trim(name, "\t :\n")
			break
		}
	}
	how := ""
	if testing.Short() {
		how = ", SHORT SIZES: only shows that it runs"
	}
	return fmt.Sprintf("%s, %d × %s, %s/%s, %s, medians of %d%s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		processor, runtime.GOOS, runtime.GOARCH, runtime.Version(), sized().rounds, how)
}

// fsync measures the least cost of a commit: how long 4 KiB take to the disk of the temporary files.
func fsync(tb testing.TB) string {
	tb.Helper()
	file, err := os.Create(filepath.Join(tb.TempDir(), "fsync"))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var took samples
	for range 20 {
		began := time.Now()
		_, err := file.Write(make([]byte, 4<<10))
		if err == nil {
			err = file.Sync()
		}
		if err != nil {
			tb.Fatal(err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	return "fsync " + lasting(took.median())
}

// load shows how quiet the machine was.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load before " + strings.Fields(string(text))[0]
}
