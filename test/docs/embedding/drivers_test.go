package embedding

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/store"
)

// This program imports a driver of SQLite for handles of its own, and not what Open needs: it is told what to import.
func TestOpenSaysWhatToImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	_, err := store.Open(t.Context(), store.SQLite, file, store.Options{})
	const want = `import _ "github.com/lockstep-scheduler/lockstep/store/sqlite"`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Open: %v", err)
	}
	if _, err := store.OpenReadOnly(t.Context(), file, store.Options{}); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("OpenReadOnly: %v", err)
	}
}
