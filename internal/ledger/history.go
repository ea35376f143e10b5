package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// DefinitionID is what people and the rows of triggers name a job's definition by: 16 hexadecimal digits, the same for the same hash in one store.
// The hash itself is not shown: values that may be secret are in it, and could be guessed by it. key is a secret of the store.
func DefinitionID(key, hash string) string {
	if hash == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(hash))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
