package embedding

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/store"
)

// This program imports a SQLite driver for its own handles, but not the one that Open needs: the error names the
// import.
func TestOpenNamesTheImport(t *testing.T) {
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
