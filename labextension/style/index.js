import './base.css';
import './panel.css';
import './job.css';
