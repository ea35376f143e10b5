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

// Flush writes counted refusals to the audit. That happens within half a minute by itself; a program that ends calls
// Flush after serving, before it closes the store. Entries that cannot be written are logged.
func (h *Handler) Flush(ctx context.Context) {
	left, err := h.server.refused.close()
	for _, e := range left {
		h.server.unaudited(ctx, e, err)
	}
}
