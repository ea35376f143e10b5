package sqlkit

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// Of statements that are made for one call only so many are kept. Those that are not kept do not count: a count that went on
// would be below the bound again after 2³¹ of them.
func TestKeptTextsAreBounded(t *testing.T) {
	db := New(new(sql.DB), SQLite{}, "t_", []string{"a"})
	if got := db.Text("SELECT '" + strings.Repeat("x", plainText) + "' FROM {a}"); !strings.HasSuffix(got, "FROM t_a") {
		t.Fatalf("the text is %.20q…", got[len(got)-20:])
	}
	for i := range keptPlain + 100 {
		if got, want := db.Text(fmt.Sprintf("SELECT %d FROM {a}", i)), fmt.Sprintf("SELECT %d FROM t_a", i); got != want {
			t.Fatalf("the text is %q, want %q", got, want)
		}
	}
	kept := 0
	db.texts.plain.Range(func(any, any) bool { kept++; return true })
	if counted := int(db.texts.count.Load()); kept != keptPlain || counted != keptPlain {
		t.Errorf("%d texts are kept and %d are counted, want %d", kept, counted, keptPlain)
	}
}
