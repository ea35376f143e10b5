package api

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// reply answers with v as JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	begin(w, status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
	return nil
}

// replyList answers with a page, item after item, so that a page of large payloads is never held
// as one text.
func replyList[T any](w http.ResponseWriter, status int, items []T, next string) error {
	begin(w, status)
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`{"items":[`)
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			panic(http.ErrAbortHandler) // the answer has begun: break it off, so that nobody takes it for whole
		}
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(line)
	}
	_ = out.WriteByte(']')
	if next != "" {
		text, _ := json.Marshal(next) // a string always can be
		_, _ = out.WriteString(`,"next":` + string(text))
	}
	_, _ = out.WriteString("}\n")
	_ = out.Flush()
	return nil
}

func begin(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
}

// cut returns the page of rows that p asks for. The rows are sorted by their keys, which are
// distinct.
func cut[T any](rows []T, key func(T) string, p ledger.Page) (page []T, next string, err error) {
	after, err := readCursor(p.Cursor)
	if err != nil {
		return nil, "", err
	}
	at, found := slices.BinarySearchFunc(rows, after, func(row T, after string) int { return strings.Compare(key(row), after) })
	if found {
		at++
	}
	rows = rows[at:]
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		next = cursorAfter(key(rows[p.Limit-1]))
	}
	return rows, next, nil
}

func cursorAfter(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

func readCursor(cursor string) (after string, err error) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", malformed("cursor", "this is not a cursor that a page gave")
	}
	return string(key), nil
}
