package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a folder has lost since its run ended is named; what was added to a log is no loss.
func TestDamaged(t *testing.T) {
	long := strings.Repeat("{}\n", 12)
	for name, c := range map[string]struct {
		file, had, has string // has "": it is gone
		want           []string
	}{
		"lines":        {ProcessesFile, long, "{}\n", []string{"processes.jsonl has 1 line, and had 12"}},
		"a file":       {ProcessesFile, long, "", []string{"processes.jsonl is missing, and had 12 lines"}},
		"more lines":   {EffectsFile, long, long + long, nil},
		"the tables":   {FinalFile, "{}", "{ }", []string{"final.json has 3 bytes, and had 2"}},
		"leftovers":    {LeftoversFile, "[]", "", []string{"leftovers.json is missing, and had 2 bytes"}},
		"nothing":      {LeftoversFile, "[]", "[]", nil},
		"an empty log": {StaleFile, "\n", "\n", nil},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		if err := os.WriteFile(path, []byte(c.had), 0o600); err != nil {
			t.Fatal(err)
		}
		had, err := Count(dir)
		if err != nil || len(had) != 1 {
			t.Fatalf("%v, %v", had, err)
		}
		if c.has == "" {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, []byte(c.has), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := damaged(dir, had)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestReadOfATooLongLine(t *testing.T) {
	dir := t.TempDir()
	for file, v := range map[string]any{RunFile: Run{}, FinalFile: Final{}} {
		if err := Write(dir, file, v); err != nil {
			t.Fatal(err)
		}
	}
	text := "{}\n{\"Key\":\"" + strings.Repeat("k", longest) + "\"}\n"
	if err := os.WriteFile(filepath.Join(dir, EffectsFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), EffectsFile+":2: a line of more than ") {
		t.Error(err)
	}
}
