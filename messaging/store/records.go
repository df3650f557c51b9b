// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
)

// keeper knows which versions the records have, so that a save whose answer was lost, and that comes late, changes nothing newer.
type keeper struct {
	mutex    sync.Mutex
	known    bool
	versions map[string]int32 // by path
	folders  map[string]bool
}

// Load reads all. The ensemble is asked to bring the server up to date first, so that nothing of a leader before is missing.
func (l *inZooKeeper) Load(ctx context.Context) ([]Record, error) {
	l.records.mutex.Lock()
	defer l.records.mutex.Unlock()
	return l.load(ctx)
}

func (l *inZooKeeper) load(ctx context.Context) ([]Record, error) {
	z := l.of
	for {
		session := z.conn.SessionID()
		if _, err := ask(ctx, z, func() (string, error) { return z.conn.Sync(Root) }); err != nil {
			return nil, err
		}
		records, versions, folders, err := z.all(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			continue // a save whose answer was lost came in between
		}
		if err != nil {
			return nil, err
		}
		// Another session may have been with a server that lags behind.
		if z.conn.SessionID() == session {
			if l.gone() {
				return nil, ErrFenced
			}
			l.records.versions, l.records.folders, l.records.known = versions, folders, true
			return records, nil
		}
	}
}

func (z *ZooKeeper) all(ctx context.Context) ([]Record, map[string]int32, map[string]bool, error) {
	values, versions, folders := map[string][]byte{}, map[string]int32{}, map[string]bool{}
	children := func(path string) ([]string, error) {
		return ask(ctx, z, func() ([]string, error) {
			names, _, err := z.conn.Children(path)
			return names, err
		})
	}
	roots, err := children(Root)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, folder := range roots {
		path := Root + "/" + folder
		if path == leaderPath || path == beatPath {
			continue
		}
		folders[path] = true
		names, err := children(path)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, name := range names {
			found, err := z.get(ctx, path+"/"+name)
			if err != nil {
				return nil, nil, nil, err
			}
			values[join(folder, name)] = found.data
			versions[path+"/"+name] = found.version
		}
	}
	return sorted(values), versions, folders, nil
}

// Save keeps the records in one transaction with the check that no other process leads.
func (l *inZooKeeper) Save(ctx context.Context, records ...Record) error {
	l.records.mutex.Lock()
	defer l.records.mutex.Unlock()
	if l.gone() {
		return ErrFenced
	}
	if !l.records.known {
		if _, err := l.load(ctx); err != nil {
			return err
		}
	}
	next := map[string]int32{}
	var operations []any
	for _, r := range records {
		folder, name, err := split(r.Key)
		if err != nil {
			return err
		}
		folder = Root + "/" + folder
		path := folder + "/" + name
		version, there := l.records.versions[path]
		switch {
		case r.Value == nil && there:
			operations = append(operations, &zk.DeleteRequest{Path: path, Version: version})
			next[path] = -1
		case r.Value == nil:
		case there:
			operations = append(operations, &zk.SetDataRequest{Path: path, Data: r.Value, Version: version})
			next[path] = version + 1
		default:
			if !l.records.folders[folder] {
				if err := l.of.make(ctx, folder); err != nil {
					return err
				}
				l.records.folders[folder] = true
			}
			operations = append(operations, &zk.CreateRequest{Path: path, Data: r.Value, Acl: zk.WorldACL(zk.PermAll)})
			next[path] = 0
		}
	}
	if err := l.fenced(ctx, operations...); err != nil {
		l.records.known = false
		return err
	}
	for path, version := range next {
		if version < 0 {
			delete(l.records.versions, path)
		} else {
			l.records.versions[path] = version
		}
	}
	return nil
}
