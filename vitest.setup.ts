// What Lumino and Lab's components expect of a browser and jsdom lacks.
Element.prototype.scrollIntoView ??= () => undefined;
globalThis.DragEvent ??= class extends MouseEvent {} as typeof DragEvent;
window.matchMedia = query =>
  Object.assign(new EventTarget(), {
    matches: false,
    media: query
  }) as unknown as MediaQueryList;
