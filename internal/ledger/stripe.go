package ledger

import "crypto/sha256"

// Stripes is how many stripes there are.
const Stripes = 64

// Stripe is the stripe of the job with that name, 0 … 63: the first byte of the name's SHA-256,
// modulo 64. It never changes; replicas of all versions must agree on it.
func Stripe(name string) int {
	return int(sha256.Sum256([]byte(name))[0]) % Stripes
}
