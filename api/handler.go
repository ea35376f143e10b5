package api

import (
	"context"
	"net/http"
)

// Handler is the API.
type Handler struct {
	http.Handler
	server     *server
	incomplete error // of what New was given
}

// Flush writes to the audit what was only counted: refused writes of clients with many of them. That happens within half
// a minute by itself; a program that ends calls Flush when it serves no more, before it closes the store. What cannot be
// written goes to the log.
func (h *Handler) Flush(ctx context.Context) {
	left, err := h.server.refused.close()
	for _, e := range left {
		h.server.unaudited(ctx, e, err)
	}
}
