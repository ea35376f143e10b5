package zone

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// zonesTried in the environment makes TestZonesOfAMachine do its part.
const zonesTried = "LOCKSTEP_TEST_ZONES_TRIED"

// The machine's zone files are read, and those whose names do not mean the same everywhere are not. A process looks
// where they are once, so one of its own tries that.
func TestZonesOfAMachine(t *testing.T) {
	names := map[string]bool{"Test/Own": true, "right/Own": false, "posix/Own": false, "Odd Zone": false, "9Zone": false}
	if os.Getenv(zonesTried) != "" {
		for name, fine := range names {
			zone, err := Load(name)
			if fine != (err == nil) {
				t.Errorf("%s: %v, %v", name, zone, err)
			}
			if fine && !time.Unix(0, 0).In(zone).Equal(time.Date(1970, 1, 1, 1, 0, 0, 0, zone)) {
				t.Errorf("%s is another zone", name)
			}
		}
		return
	}
	dir := t.TempDir()
	counts := make([]byte, 6*4) // of one offset and its name, of 4 bytes
	binary.BigEndian.PutUint32(counts[16:], 1)
	binary.BigEndian.PutUint32(counts[20:], 4)
	anHour := "TZif" + strings.Repeat("\x00", 16) + string(counts) + "\x00\x00\x0e\x10\x00\x00" + "OWN\x00"
	for name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(anHour), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestZonesOfAMachine$")
	cmd.Env = append(os.Environ(), "ZONEINFO="+dir, zonesTried+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLoad(t *testing.T) {
	for _, name := range []string{"Local", "localtime", "Mars/X", "EST5", "../etc/passwd", "/etc/localtime", "right/UTC", "posix/UTC", "Europe", "a\x00b", strings.Repeat("A", 500)} {
		if zone, err := Load(name); err == nil {
			t.Errorf("Load(%q) = %v, %v, want an error", name, zone, err)
		}
	}
	for _, name := range []string{"", "UTC", "Europe/London", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"} {
		first, err := Load(name)
		second, _ := Load(name)
		if err != nil || first != second {
			t.Errorf("Load(%q): %v, the same location twice: %v", name, err, first == second)
		}
	}
}
