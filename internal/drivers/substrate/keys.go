package substrate

import (
	"encoding/json"
	"fmt"

	"muster/internal/fabric"
)

// PortKeys are partitions by the host's InfiniBand ports. The port 0 stands for all that are not named.
type PortKeys map[fabric.GUID]fabric.Key

// Words are keys as the protocol with hosts has them: "" is the port 0.
func (keys PortKeys) Words() map[string]uint16 {
	if keys == nil {
		return nil
	}
	all := map[string]uint16{}
	for port, key := range keys {
		if port == 0 {
			all[""] = uint16(key)
			continue
		}
		all[port.String()] = uint16(key)
	}
	return all
}

// ReadPortKeys is the inverse. A key that is no partition's is refused: the default one would be everybody's.
func ReadPortKeys(words map[string]uint16) (PortKeys, error) {
	if words == nil {
		return nil, nil
	}
	keys := PortKeys{}
	for text, number := range words {
		key, port := fabric.Key(number), fabric.GUID(0)
		if key < fabric.FirstKey || key > fabric.LastKey {
			return nil, fmt.Errorf("%s is no partition's key; they are %s to %s", key, fabric.FirstKey, fabric.LastKey)
		}
		if text != "" {
			var err error
			if port, err = fabric.ParseGUID(text); err != nil {
				return nil, err
			}
		}
		keys[port] = key
	}
	return keys, nil
}

// MarshalJSON writes the words.
func (keys PortKeys) MarshalJSON() ([]byte, error) { return json.Marshal(keys.Words()) }

// UnmarshalJSON reads them.
func (keys *PortKeys) UnmarshalJSON(text []byte) error {
	var words map[string]uint16
	err := json.Unmarshal(text, &words)
	if err == nil {
		*keys, err = ReadPortKeys(words)
	}
	return err
}
