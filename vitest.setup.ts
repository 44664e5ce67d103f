// What Lumino and Lab expect of a browser and jsdom lacks.
globalThis.DragEvent ??= class extends MouseEvent {} as typeof DragEvent;
