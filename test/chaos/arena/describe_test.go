package arena

import "testing"

func TestLoad(t *testing.T) {
	if load, err := Load(); err != nil || load < 0 {
		t.Errorf("%v, %v", load, err)
	}
}
