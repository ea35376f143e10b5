package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
)

// reply sends v as JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(w, status, append(body, '\n'))
	return nil
}

// replyList sends a page. The page ends early if it would be longer than paging.Bytes, where cursor returns the cursor
// of an item; a nil cursor is for lists that the store bounds.
func replyList[T any](w http.ResponseWriter, status int, items []T, next string, cursor func(T) string) error {
	page := wire.List[json.RawMessage]{Items: make([]json.RawMessage, 0, len(items)), Next: next}
	size := 0
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if size += len(line); i > 0 && cursor != nil && size > paging.Bytes {
			page.Next = cursor(items[i-1])
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

// send sends the whole body, as JSON unless a header says otherwise. A client that does not read it is disconnected.
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

// replyPage sends the page of a list that p selects. The rows are sorted by distinct keys.
func replyPage[T any](w http.ResponseWriter, list string, rows []T, key func(T) string, p wire.Page) error {
	after, err := readCursor(p, list)
	if err != nil {
		return err
	}
	at, found := slices.BinarySearchFunc(rows, after, func(row T, after string) int { return strings.Compare(key(row), after) })
	if found {
		at++
	}
	cursor := func(row T) string { return paging.Cursor(list, key(row)) }
	next := ""
	if rows = rows[at:]; len(rows) > p.Limit {
		rows = rows[:p.Limit]
		next = cursor(rows[p.Limit-1])
	}
	return replyList(w, http.StatusOK, rows, next, cursor)
}

// readCursor returns the key of the row that a page comes after; "" for the first page.
func readCursor(p wire.Page, list string) (after string, err error) {
	key, err := paging.ReadCursor(p.Cursor, list, 1)
	if err != nil {
		return "", malformed("cursor", "not a cursor of a page")
	}
	return strings.Join(key, ""), nil
}
