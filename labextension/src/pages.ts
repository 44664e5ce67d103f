/** Pages of jobs by id: each is made once while it is there, and anew where making it failed. */
export class Pages<T> {
  constructor(private readonly _make: (id: string) => Promise<T>) {}

  get(id: string): Promise<T> {
    const page = this._pages.get(id) ?? this._make(id);
    this._pages.set(id, page);
    // Its code is fetched with the first page, which a server that restarts does not give.
    page.catch(() => {
      this.forget(id);
    });
    return page;
  }

  forget(id: string): void {
    this._pages.delete(id);
  }

  private readonly _pages = new Map<string, Promise<T>>();
}
