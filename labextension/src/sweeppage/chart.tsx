/** A chart that Lab's own renderer draws, with its tooltips and export; a table beside says the same. */
import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { Fragment, h } from '../components/h';
import type { IColours, Spec } from './charts';

const VEGA_LITE = 'application/vnd.vegalite.v5+json';
/** Some frames. */
const AFTER_PAGE_MS = 50;

export const RendererContext = React.createContext<IRenderMimeRegistry | null>(
  null
);

/** Draws it anew when what it shows, or the theme, has changed. */
export function Chart(props: {
  /** What it shows, for who does not see it. */
  label: string;
  spec: (colours: IColours) => Spec;
  /** Where nothing here draws charts. */
  instead: string;
}): React.JSX.Element {
  const node = React.useRef<HTMLDivElement>(null);
  const registry = React.useContext(RendererContext);
  const [failed, setFailed] = React.useState<string | null>(null);
  const colours = useColours();
  const can = registry?.preferredMimeType({ [VEGA_LITE]: {} }, 'any') != null;
  const newest = can ? JSON.stringify(props.spec(colours)) : '';
  const [drawn, setDrawn] = React.useState('');
  const isSeen = useSeen(node);
  // Drawn where nobody sees it, it would be as wide as nothing, and stay so.
  React.useEffect(() => {
    if (isSeen) {
      setDrawn(newest);
    }
  }, [isSeen, newest]);
  // Taken away before its place is: what stands nowhere cannot be.
  React.useLayoutEffect(() => {
    if (registry === null || drawn === '' || node.current === null) {
      return;
    }
    const renderer = registry.createRenderer(VEGA_LITE);
    Widget.attach(renderer, node.current);
    const data = { [VEGA_LITE]: JSON.parse(drawn) as Spec };
    let isCurrent = true;
    renderer
      .renderModel(new MimeModel({ data, trusted: true } as never))
      .catch(() => {
        // One that is taken away while it is drawn has not failed.
        if (isCurrent) {
          setFailed(drawn);
        }
      });
    return () => {
      isCurrent = false;
      renderer.dispose();
    };
  }, [registry, drawn]);
  const shows = can && (drawn === '' || failed !== drawn);
  return (
    <>
      <div
        className="gc-Chart"
        ref={node}
        role="img"
        aria-label={props.label}
        hidden={!shows}
      />
      {shows ? null : <p className="gc-Muted">{props.instead}</p>}
    </>
  );
}

/** Whether its box has a width: that of a tab behind others has none. */
function useSeen(node: React.RefObject<HTMLElement>): boolean {
  const [isSeen, setSeen] = React.useState(false);
  React.useEffect(() => {
    const box = node.current?.parentElement;
    if (!box) {
      return;
    }
    let timer = 0;
    const observer = new ResizeObserver(() => {
      const isNow = box.offsetWidth > 0;
      // What draws charts is large: the page beside them is shown before it is loaded.
      window.clearTimeout(timer);
      timer = window.setTimeout(() => {
        setSeen(isNow);
      }, AFTER_PAGE_MS);
    });
    observer.observe(box);
    return () => {
      window.clearTimeout(timer);
      observer.disconnect();
    };
  }, [node]);
  return isSeen;
}

/** The page's colours, read anew when the theme changes. */
function useColours(): IColours {
  const [colours, setColours] = React.useState(coloursNow);
  React.useEffect(() => {
    const observer = new MutationObserver(() => {
      setColours(coloursNow());
    });
    observer.observe(document.body, {
      attributeFilter: ['data-jp-theme-name']
    });
    return () => {
      observer.disconnect();
    };
  }, []);
  return colours;
}

function coloursNow(): IColours {
  const style = getComputedStyle(document.body);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: of('--jp-ui-font-color2'),
    faint: of('--jp-border-color2'),
    line: of('--jp-brand-color1'),
    borrowed: of('--jp-warn-color1')
  };
}
