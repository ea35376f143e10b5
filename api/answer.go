package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// reply answers with v as JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(w, status, append(body, '\n'))
	return nil
}

// pageBytes is after how many bytes a page ends, whatever its limit is.
const pageBytes = 1 << 20

// replyList answers with a page. The page ends early where it would be longer than pageBytes, if key gives the
// cursors of its items; a nil key is for what the store has bounded.
func replyList[T any](w http.ResponseWriter, status int, items []T, next string, key func(T) string) error {
	page := wire.List[json.RawMessage]{Items: make([]json.RawMessage, 0, len(items)), Next: next}
	size := 0
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if size += len(line); i > 0 && key != nil && size > pageBytes {
			page.Next = cursorAfter(key(items[i-1]))
			break
		}
		page.Items = append(page.Items, line)
	}
	return reply(w, status, page)
}

const (
	answerTime = 20 * time.Second // for a client to take an answer
	smallBytes = 16 << 10         // the system takes these, whether the client does or not
)

// send answers with the whole body, which is JSON unless a header says otherwise. A client that does not take it is let
// go; one that has gone needs no answer.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json; charset=utf-8")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if len(body) <= smallBytes {
		w.WriteHeader(status)
		_, _ = w.Write(body)
		return
	}
	stream := http.NewResponseController(w)
	bounded := stream.SetWriteDeadline(time.Now().Add(answerTime)) == nil
	w.WriteHeader(status)
	_, _ = w.Write(body)
	if bounded && stream.Flush() == nil {
		_ = stream.SetWriteDeadline(time.Time{}) // of what follows on the connection
	}
}

// cut returns the page of rows that p asks for. The rows are sorted by their keys, which are
// distinct.
func cut[T any](rows []T, key func(T) string, p wire.Page) (page []T, next string, err error) {
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
