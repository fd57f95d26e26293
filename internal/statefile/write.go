package statefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Writer appends groups to a file. After an error, the file has all groups that were
// synced before; close the writer, and create another one.
type Writer struct {
	folder *Folder
	file   *os.File
	name   string // final name
	isNew  bool   // whether the file does not have its final name yet
	group  uint64 // number of the current group
	size   int64
	image  int64 // size when the image was complete
}

// Create creates the file that replaces the newest one. Its groups are numbered from the
// parameter group on. It gets its name when [Writer.Commit] is called.
func (f *Folder) Create(header []byte, group uint64) (*Writer, error) {
	latest, err := newest(f.Path)
	if err != nil {
		return nil, err
	}
	w := &Writer{folder: f, name: filepath.Join(f.Path, fileName(latest+1)), isNew: true, group: group}
	w.file, err = os.OpenFile(w.name+newSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, accessError(w.name+newSuffix, "", err)
	}
	if err := w.write([]byte(preamble)); err != nil {
		return nil, errors.Join(err, w.Discard())
	}
	frame := append(NewFrame(nil), header...)
	seal(frame, group-1, Header)
	if err := w.write(frame); err != nil {
		return nil, errors.Join(err, w.Discard())
	}
	return w, nil
}

// Continue opens a file to append groups. It cuts off what follows the last complete
// group. The parameter image is the size of the file's image, or an estimate.
func (f *Folder) Continue(c *Contents, image int64) (*Writer, error) {
	file, err := os.OpenFile(c.Path, os.O_RDWR, 0)
	if err != nil {
		return nil, accessError(c.Path, "", err)
	}
	w := &Writer{folder: f, file: file, name: c.Path, group: c.last + 1, size: c.End, image: image}
	if c.Cut() > 0 {
		if err := errors.Join(file.Truncate(c.End), file.Sync()); err != nil {
			return nil, errors.Join(accessError(c.Path, "cut off an incomplete group", err), file.Close())
		}
	}
	return w, nil
}

// Append writes a frame, which must begin with room for its header; see [NewFrame].
func (w *Writer) Append(frame []byte) error {
	seal(frame, w.group, Records)
	return w.write(frame)
}

// EndGroup ends the current group, and begins the next.
func (w *Writer) EndGroup(e GroupEnd) error {
	frame := e.append(NewFrame(make([]byte, 0, FrameHeader+endBytes)))
	seal(frame, w.group, end)
	w.group++
	if err := w.write(frame); err != nil {
		return err
	}
	if e.Complete {
		w.image = w.size
	}
	return nil
}

func (w *Writer) write(b []byte) error {
	n, err := w.file.WriteAt(b, w.size)
	w.size += int64(n)
	if err != nil {
		return accessError(w.path(), "", err)
	}
	return nil
}

func (w *Writer) path() string {
	if w.isNew {
		return w.name + newSuffix
	}
	return w.name
}

// Sync waits until the disk has all groups.
func (w *Writer) Sync() error {
	if err := w.file.Sync(); err != nil {
		return accessError(w.path(), "", err)
	}
	return nil
}

// Commit syncs the file, gives it its name, and removes the files that it replaces. The
// image must be complete. The writer can be used afterwards.
func (w *Writer) Commit() error {
	if err := w.Sync(); err != nil {
		return err
	}
	if err := os.Rename(w.path(), w.name); err != nil {
		return accessError(w.name, "", err)
	}
	w.isNew = false
	if err := syncFolder(w.folder.Path); err != nil {
		return accessError(w.folder.Path, "", err)
	}
	return nil
}

// Group returns the number of the current group.
func (w *Writer) Group() uint64 { return w.group }

// Size returns the size of the file in bytes.
func (w *Writer) Size() int64 { return w.size }

// Grown returns the number of bytes that were appended since the image was complete.
func (w *Writer) Grown() int64 { return w.size - w.image }

// Image returns the size of the image in bytes.
func (w *Writer) Image() int64 { return w.image }

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Discard closes and removes a file without its final name.
func (w *Writer) Discard() error {
	err := w.file.Close()
	if w.isNew {
		err = errors.Join(err, os.Remove(w.path()))
	}
	return err
}
