package ledger

// Halve tries a batch. One that was refused is tried again as two halves, and so on down to single elements, of which try takes care:
// one element that the store refuses holds up no other. Where try says that it must not go on, Halve ends and returns false.
func Halve[T any](batch []T, try func(batch []T) (refused, goOn bool)) bool {
	refused, goOn := try(batch)
	if !goOn || !refused || len(batch) == 1 {
		return goOn
	}
	half := len(batch) / 2
	return Halve(batch[:half], try) && Halve(batch[half:], try)
}
