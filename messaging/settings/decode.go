// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ReadFile reads a file of at most 1 MiB; errors begin with its name.
func ReadFile[T any](path string, parse func([]byte) (T, error)) (read T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return read, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, Largest+1))
	if err != nil {
		return read, err
	}
	if read, err = parse(text); err != nil {
		return read, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}

// Decode reads one document of YAML (or JSON) into a struct. Unknown keys are told with those that there are: the struct's, and those
// of the structs that are parts of it.
func Decode(text []byte, into any, parts ...any) error {
	if len(text) > Largest {
		return errors.New("more than 1 MiB")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil && err != io.EOF {
		named := func(text string) string { return named(text, append(parts, reflect.ValueOf(into).Elem().Interface())) }
		return errors.New(unknown.ReplaceAllStringFunc(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n  "), named))
	}
	if err := decoder.Decode(new(any)); err != io.EOF {
		return errors.New("more than one document")
	}
	return nil
}

// How the decoder says that a key is unknown.
var unknown = regexp.MustCompile(`field (\S+) not found in type (\w+\.\w+)`)

// named says the same with the keys that there are.
func named(text string, parts []any) string {
	found := unknown.FindStringSubmatch(text)
	var keys []string
	for _, part := range parts {
		if of := reflect.TypeOf(part); of.String() == found[2] {
			for n := range of.NumField() {
				if key := of.Field(n).Tag.Get("yaml"); key != "-" {
					keys = append(keys, key)
				}
			}
		}
	}
	return fmt.Sprintf("'%s' is not a key here; expected one of %s", found[1], strings.Join(keys, ", "))
}
