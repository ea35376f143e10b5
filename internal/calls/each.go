package calls

import "sync"

// Each calls f for 0 … n-1, at most so many at once, and returns their errors in this order.
func Each(n, most int, f func(i int) error) []error {
	errs := make([]error, n)
	if n == 1 {
		errs[0] = f(0)
		return errs
	}
	var workers sync.WaitGroup
	for w := range min(n, most) {
		workers.Go(func() {
			for i := w; i < n; i += most {
				errs[i] = f(i)
			}
		})
	}
	workers.Wait()
	return errs
}
