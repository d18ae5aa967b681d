package verdict

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON writes the address as hexadecimal text.
func (r Rejection) MarshalJSON() ([]byte, error) {
	type plain Rejection // without this method
	out := struct {
		plain
		Address string `json:"address,omitempty"`
	}{plain: plain(r)}
	if r.Address != nil {
		out.Address = fmt.Sprintf("%#x", *r.Address)
	}
	return json.Marshal(out)
}

// MarshalJSON counts instructions from 1, as a report does.
func (i Inst) MarshalJSON() ([]byte, error) {
	type plain Inst // without this method
	i.Index++
	return json.Marshal(plain(i))
}
