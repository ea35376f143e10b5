// Package plainjson writes JSON as it is stored and compared.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Marshal is [json.Marshal] that leaves <, > and & as they are: it would write \u003c, also inside a json.RawMessage. Payloads are compared
// byte for byte, so each way to the store writes them so. A MarshalJSON within v has to do the same.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
